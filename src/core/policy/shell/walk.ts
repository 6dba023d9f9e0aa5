import type { AndOr, Command, CommandNode, CompoundList, Pipeline, Redirection } from 'unbash'
import type { Function as ShellFunction } from 'unbash'
import type { Statement, SyntaxNode } from 'unbash'
import {
  type Arg,
  argOf,
  argsOf,
  hole,
  isKnown,
  literalArg,
  argChoices,
  type Surroundings,
} from './words/arg.ts'
import { assignedOutside, assignedSecret, assignmentFindings } from './words/assignments.ts'
import { steers } from './words/environment.ts'
import { type Extras, readCommand } from './command.ts'
import { ambiguous, type Finding, type Stdin } from './words/finding.ts'
import {
  type Flow,
  isFlowNumber,
  maxDepth,
  maxFolders,
  maxPaths,
  maxSegments,
  maxWords,
  plainSegment,
} from './words/flow.ts'
import { firstFlow, noStdin, type Outcome, type Reading, unchanged, union } from './words/flow.ts'
import {
  nodeAssignedNames,
  nodeCalls,
  findInNodeWords,
  isFed,
  nodeDeclares,
  nodeListsFiles,
  nodeWords,
  setsStrict,
  shownNodeSegments,
  testNodeSegments,
} from './nodes.ts'
import { parseShellScript } from './words/parse.ts'
import { secretHandedOn } from './programs/secrets.ts'
import { readRedirects, type Redirects } from './redirects.ts'
import type { Segment } from './words/segment.ts'
import { Variables } from './words/variables.ts'

export interface Place {
  cwd: string
  home: string | undefined
  /** What the environment is known to hold. */
  variables?: Record<string, string> | undefined
  isInside: (path: string) => boolean
}

/** Every simple command that the script may run, with what can be told of it. Never throws. */
export function walkScript(text: string, place: Place): Segment[] {
  try {
    const walk = new Walk(place)
    walk.script(text, { ...firstFlow, folders: [place.cwd] })
    return walk.segments
  } catch {
    // Nested deeper than the stack.
    return [plainSegment(text, [ambiguous('Too many commands to judge')])]
  }
}

/**
 * Walks through the syntax of one script and collects every simple command that it may run, with the folders in which it
 * may run. It gives up, and says so, when there is too much to judge: then a person is asked. `walkScript` makes one for
 * each script; command.ts reads the commands and calls back for scripts inside of them.
 */
class Walk implements Reading {
  readonly segments: Segment[] = []
  readonly visited: Set<string>
  #gaveUp = false
  #paths = 0
  readonly home: string | undefined
  readonly #given: Record<string, string>
  readonly isInside: (path: string) => boolean

  constructor({ cwd, home, variables = {}, isInside }: Place) {
    this.visited = new Set([cwd])
    this.home = home
    this.#given = variables
    this.isInside = isInside
  }

  /** There is too much to judge, and that has been said. */
  #isFull(): boolean {
    const full =
      this.segments.length > maxSegments || this.visited.size > maxFolders || this.#paths > maxPaths
    if (full) this.#giveUp()
    return full
  }

  add(segment: Segment): void {
    this.#paths += segment.paths.length
    if (this.segments.length < maxSegments) this.segments.push(segment)
    else this.#giveUp()
  }

  #giveUp(): void {
    if (this.#gaveUp) return
    this.#gaveUp = true
    this.segments.push(plainSegment('…', [ambiguous('Too many commands to judge')]))
  }

  script(text: string, flow: Flow): readonly string[] {
    const parsed = flow.depth > maxDepth ? null : parseShellScript(text)
    if (parsed) {
      const { statements, bodies } = parsed
      const start = flow.folders.length === 1 ? (flow.folders[0] ?? hole) : hole
      // A script inside the script may have been given another environment.
      const given = flow.depth === 0 ? this.#given : {}
      for (const segment of shownNodeSegments(statements)) this.add(segment)
      const variables = new Variables(statements, { home: this.home, start, given })
      return this.#statements(statements, { ...flow, bodies, variables, assigned: new Set() })
    }
    this.add(plainSegment(text, [ambiguous('It cannot be told what a shell makes of it')]))
    return flow.folders
  }

  #statements(statements: readonly Statement[], flow: Flow): readonly string[] {
    let { folders, strict, assigned } = flow
    for (const { command, background } of statements) {
      if (this.#isFull()) return folders
      const { done, failed } = this.#run(command, { ...flow, folders, strict, assigned })
      if (!background) assigned = withNames(assigned, nodeAssignedNames(command))
      const ends = strict && command.type === 'Command'
      if (!background) folders = ends ? done : union(done, failed)
      strict ||= setsStrict(command)
    }
    return folders
  }

  #list = (list: CompoundList | undefined, flow: Flow): readonly string[] =>
    list ? this.#statements(list.commands, flow) : flow.folders

  #run(node: CommandNode | Pipeline | AndOr | CompoundList, flow: Flow): Outcome {
    switch (node.type) {
      case 'Command':
        return this.#command(node, flow)
      case 'AndOr':
        return this.#andOr(node, flow)
      case 'Pipeline':
        return this.#pipeline(node, flow)
      case 'Subshell':
        this.#list(node.body, flow)
        return unchanged(flow)
      case 'BraceGroup':
        return same(this.#list(node.body, flow))
      case 'CompoundList':
        return same(this.#list(node, flow))
      case 'Redirected': {
        const redirects = this.#redirects(node.redirects, flow)
        this.#note(node.redirects, flow)
        this.#addRedirects(redirects)
        return this.#run(node.command, { ...flow, stdin: redirects.stdin ?? flow.stdin })
      }
      case 'Coproc':
        this.#run(node.body, flow)
        return unchanged(flow)
      default:
        return same(this.#compound(node, flow))
    }
  }

  /** Branches and loops: any part may have run, or not. */
  #compound(
    node: Exclude<
      CommandNode,
      { type: 'Command' | 'Subshell' | 'BraceGroup' | 'Redirected' | 'Coproc' }
    >,
    flow: Flow,
  ): readonly string[] {
    switch (node.type) {
      case 'If': {
        const tested = this.#list(node.clause, flow)
        const branches = [node.then, node.else].map((list) =>
          this.#list(list, { ...flow, folders: tested }),
        )
        const others = node.elif.map((elif) =>
          this.#list(elif.then, {
            ...flow,
            folders: this.#list(elif.clause, { ...flow, folders: tested }),
          }),
        )
        return union(tested, ...branches, ...others)
      }
      case 'While': {
        const looping = { ...flow, inLoop: true }
        const tested = this.#list(node.clause, looping)
        return union(tested, this.#list(node.body, { ...looping, folders: tested }))
      }
      case 'For':
      case 'Select':
        this.#note(node.wordlist ?? [], flow)
        for (const word of node.wordlist ?? [])
          this.#noteLoopWord(node.name.value, argOf(word, this.#around(flow)), flow)
        return union(
          flow.folders,
          this.#list(node.body, {
            ...flow,
            inLoop: true,
            assigned: withNames(flow.assigned, node.wordlist ? [node.name.value] : []),
          }),
        )
      case 'ArithmeticFor':
        this.#note([node.initialize, node.test, node.update], flow)
        return union(flow.folders, this.#list(node.body, { ...flow, inLoop: true }))
      case 'Case':
        this.#note([node.word, ...node.items.flatMap(({ pattern }) => pattern)], flow)
        return union(flow.folders, ...node.items.map(({ body }) => this.#list(body, flow)))
      case 'TestCommand':
        this.#note([node.expression], flow)
        for (const segment of testNodeSegments(
          node.expression,
          this.#around(flow),
          this.isInside,
          isFlowNumber(flow),
        ))
          this.add(segment)
        return flow.folders
      case 'ArithmeticCommand':
        this.#note([node.expression], flow)
        return flow.folders
      default:
        return this.#function(node, flow)
    }
  }

  #function({ name, body }: ShellFunction, flow: Flow): readonly string[] {
    if (nodeCalls(body, name.value))
      this.add(plainSegment(`${name.value}()`, [ambiguous('A function calls itself')]))
    // Where it is called something may be piped into it.
    const { done, failed } = this.#run(body, { ...flow, stdin: { kind: 'unknown' } })
    return union(flow.folders, done, failed)
  }

  #andOr({ commands, operators }: AndOr, flow: Flow): Outcome {
    let done: readonly string[] = flow.folders
    let failed: readonly string[] = done
    let { assigned } = flow
    for (const [index, command] of commands.entries()) {
      if (this.#isFull()) break
      const onFailure = operators[index - 1] === '||'
      const from = onFailure ? failed : done
      const next = this.#run(command, { ...flow, folders: from, assigned })
      // What comes after "&&" runs only if this did.
      if (operators.slice(0, index).every((operator) => operator === '&&'))
        assigned = withNames(assigned, nodeAssignedNames(command))
      failed = onFailure || index === 0 ? next.failed : union(failed, next.failed)
      done = onFailure ? union(done, next.done) : next.done
    }
    return { done, failed }
  }

  #pipeline({ commands }: Pipeline, flow: Flow): Outcome {
    if (commands.length === 1 && commands[0]) return this.#run(commands[0], flow)
    let listing = true
    for (const [index, command] of commands.entries()) {
      if (this.#isFull()) break
      const before = commands[index - 1]
      if (before) listing &&= nodeListsFiles(before, index === 1)
      const stdin = before ? this.#output(before, flow) : flow.stdin
      const captured = flow.captured || isFed(commands[index + 1])
      const listed = index > 0 && listing
      this.#run(command, { ...flow, stdin, captured, listed })
    }
    return unchanged(flow)
  }

  /** What a command prints, if its words say it: `echo x`, `cat <<EOF`. */
  #output(node: CommandNode, flow: Flow): Stdin {
    if (node.type !== 'Command' || !node.name) return { kind: 'unknown' }
    const args = node.args.map((arg) => this.#arg(arg, flow))
    if (node.name.value === 'cat' && args.length === 0)
      return this.#redirects(node.redirects, flow).stdin ?? { kind: 'unknown' }
    const printed = args.filter(({ value }) => !/^-[neE]+$/.test(value))
    const plain = /^(?:echo|printf)$/.test(node.name.value) && printed.every(isKnown)
    const text = printed.map(({ value }) => value).join(' ')
    return plain && !/[%\\]/.test(text) ? { kind: 'text', text } : { kind: 'unknown' }
  }

  #command(node: Command, flow: Flow): Outcome {
    const findings = this.#inside(node, flow)
    const redirects = this.#redirects(node.redirects, flow)
    const assignments = [...node.prefix, ...node.suffix].filter(
      (part) => part.type === 'Assignment',
    )
    const stays = !node.name || nodeDeclares.test(node.name.value)
    for (const { name, value } of assignments) {
      const values = (value.type === 'Word' ? [value] : value.elements).map((word) =>
        argOf(word, this.#around(flow)),
      )
      findings.push(...assignmentFindings(name, values[0] ?? null))
      findings.push(...values.flatMap((arg) => this.#assigned(name, arg, flow)))
      if (stays) findings.push(...values.flatMap((arg) => assignedSecret(name, arg)))
      else findings.push(...values.flatMap((arg) => secretHandedOn(name, arg, nodeWords(node))))
      // `declare -a a='(/x)'` makes a list of the text.
      if (node.name && stays && values.some(({ value }) => value.startsWith('(')))
        findings.push(ambiguous('A text becomes a list of values'))
    }
    const extras = { ...redirects, findings: [...redirects.findings, ...findings] }
    const stdin = redirects.stdin ?? flow.stdin
    if (node.name?.value === 'exec' && node.args.length === 0 && redirects.stdin)
      extras.findings.push(ambiguous('What the commands after it read is something else'))
    if (node.name && node.args.length > maxWords) {
      this.add(plainSegment(node.name.value, [ambiguous('Too much to judge')]))
      return unchanged(flow)
    }
    if (node.name) {
      const parts = [node.name, ...node.args].map((part) => this.#args(part, flow))
      // Too many to look at each: then none is known.
      const lists = argChoices(parts) ?? [
        [node.name, ...node.args].map((part) => this.#arg(part, flow)),
      ]
      const outcomes = lists.map((words) => readCommand(words, { ...flow, stdin }, this, extras))
      return {
        done: union(...outcomes.map(({ done }) => done)),
        failed: union(...outcomes.map(({ failed }) => failed)),
      }
    }
    if (extras.findings.length + extras.paths.length + extras.hosts.length > 0)
      this.#addRedirects(extras, assignments.map(({ text }) => text).join(' '))
    return unchanged(flow)
  }

  #args(part: Command['args'][number], flow: Flow): Arg[][] {
    return part.type === 'Word' ? argsOf(part, this.#around(flow)) : [[this.#arg(part, flow)]]
  }

  #arg(part: Command['args'][number], flow: Flow): Arg {
    if (part.type === 'Word') return argOf(part, this.#around(flow))
    const { name, value } = part
    return literalArg(
      `${name}=${value.type === 'Word' ? argOf(value, this.#around(flow)).value : ''}`,
    )
  }

  #assigned = (name: string, arg: Arg, flow: Flow): Finding[] =>
    assignedOutside(name, arg, this.#around(flow), this.isInside)

  #noteLoopWord(variable: string, arg: Arg, flow: Flow): void {
    const name = 'The loop'
    const findings = [
      ...this.#assigned(name, arg, flow),
      ...assignedSecret(name, arg),
      ...(steers(variable) ? assignmentFindings(variable, null) : []),
    ]
    if (findings.length > 0) this.add(plainSegment(arg.text, findings))
  }

  around({ folders, variables, assigned }: Flow): Surroundings {
    const values = (name: string) => {
      if (!variables?.has(name)) return variables?.given(name)
      return assigned.has(name) ? variables.valuesOf(name) : null
    }
    return { home: this.home, folders, values }
  }

  #around = (flow: Flow): Surroundings => this.around(flow)

  #redirects = (redirections: readonly Redirection[], flow: Flow): Redirects =>
    readRedirects(redirections, {
      around: this.#around(flow),
      isInside: this.isInside,
      bodies: flow.bodies,
    })

  #addRedirects({ paths, hosts, findings }: Extras, text = '(redirection)'): void {
    if (paths.length + hosts.length + findings.length === 0) return
    const category = hosts.length > 0 ? 'network' : 'shell'
    this.add({ text, category, paths, hosts, findings, secret: null })
  }

  #note(nodes: readonly (SyntaxNode | undefined)[], flow: Flow): void {
    const findings = nodes.flatMap((node) => (node ? this.#inside(node, flow) : []))
    if (findings.length > 0) this.add(plainSegment('(expansion)', findings))
  }

  /** Substitutions in words, each a script of its own. */
  #inside = (node: SyntaxNode, flow: Flow): Finding[] =>
    findInNodeWords(
      node,
      ({ commands, source }, fed) => {
        // `>(sh)` gets what the command prints.
        const stdin: Stdin = fed ? { kind: 'unknown' } : noStdin
        const inner = { ...flow, depth: flow.depth + 1, captured: true, stdin }
        // Text between escaped backticks counts its positions from its own beginning.
        this.#statements(commands, source === undefined ? inner : { ...inner, bodies: new Map() })
      },
      isFlowNumber(flow),
    )
}

const withNames = (assigned: ReadonlySet<string>, names: readonly string[]): ReadonlySet<string> =>
  names.length === 0 ? assigned : new Set([...assigned, ...names])

const same = (folders: readonly string[]): Outcome => ({ done: folders, failed: folders })
