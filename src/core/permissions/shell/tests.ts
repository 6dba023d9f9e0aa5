import type { TestExpression } from 'unbash'
import { argOf, type Surroundings, textOf } from './arg.ts'
import { hidden, hidesSubstitution } from './assignments.ts'
import { ambiguous } from './finding.ts'
import { plainSegment } from './flow.ts'
import { locate } from './locate.ts'
import type { Segment } from './segment.ts'

const unclear = (text: string): Segment => plainSegment(`[[ ${text} ]]`, [ambiguous(hidden)])
const asksForFile = /^-[a-hkprsuwxLNOGS]$/

/** The files that `[[ … ]]` asks about. */
export function testSegments(
  expression: TestExpression,
  around: Surroundings,
  isInside: (path: string) => boolean,
): Segment[] {
  const inner = (part: TestExpression) => testSegments(part, around, isInside)
  switch (expression.type) {
    case 'TestLogical':
      return expression.operands.flatMap(inner)
    case 'TestNot':
      return inner(expression.operand)
    case 'TestGroup':
      return inner(expression.expression)
    case 'TestBinary': {
      const sides = [expression.left, expression.right].map((side) => argOf(side, around))
      return sides.some(({ value }) => hidesSubstitution(value)) ? [unclear(textOf(sides))] : []
    }
    default: {
      const target = argOf(expression.operand, around)
      if (hidesSubstitution(target.value)) return [unclear(textOf([target]))]
      if (!asksForFile.test(expression.operator)) return []
      const { paths, findings } = locate(target, around, isInside)
      const segment = plainSegment(`[[ ${expression.operator} ${textOf([target])} ]]`, findings)
      return [{ ...segment, paths: paths.map((path) => ({ path, read: false })) }]
    }
  }
}
