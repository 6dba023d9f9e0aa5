/** A node of the syntax tree, as ESTree has it. */
export type Node = { type: string; start: number; end: number } & Record<string, unknown>

export const isLogical = (node: Node) =>
  (node.type === 'LogicalExpression' && node['operator'] !== '??') ||
  (node.type === 'UnaryExpression' && node['operator'] === '!')

export const isText = (node: Node) =>
  node.type === 'TemplateLiteral' || (node.type === 'Literal' && typeof node['value'] === 'string')

export const isType = ({ type }: Node) =>
  type.startsWith('TS') &&
  !['TSAsExpression', 'TSNonNullExpression', 'TSSatisfiesExpression'].includes(type)

export const nextOfSpine = (node: Node) =>
  (node['object'] ??
    node['callee'] ??
    (node.type === 'TSNonNullExpression' ? node['expression'] : undefined)) as Node | undefined

/** Whether it is cut short by a `?.` of its own. */
export function hasOptional(node: Node): boolean {
  for (let part: Node | undefined = node; part; part = nextOfSpine(part))
    if (part['optional'] === true) return true
  return false
}

/** Where an expression cannot be put into brackets and chosen: targets of assignments, names, what is called. */
export function childrenOf(node: Node): [string, Node][] {
  const skipped = skippedKeys(node)
  return Object.entries(node)
    .filter(([key]) => !skipped.includes(key))
    .flatMap(([key, value]) =>
      (Array.isArray(value) ? value : [value])
        .filter(isNode)
        .map((child): [string, Node] => [key, child]),
    )
    .flatMap(([key, child]) => {
      // The callee itself stays, since it brings its `this`; what is before the last dot may change.
      const isCallee =
        key === 'callee' && node.type === 'CallExpression' && child.type === 'MemberExpression'
      return isCallee ? partsOfMember(child) : [[key, child] as [string, Node]]
    })
}

function partsOfMember(member: Node): [string, Node][] {
  const parts: [string, Node][] = [['object', member['object'] as Node]]
  if (member['computed'] === true) parts.push(['property', member['property'] as Node])
  return parts
}

function skippedKeys(node: Node): string[] {
  const types = [
    'typeAnnotation',
    'typeArguments',
    'typeParameters',
    'returnType',
    'decorators',
    'superClass',
    'quasis',
  ]
  switch (node.type) {
    case 'AssignmentExpression':
      return [...types, 'left']
    case 'UpdateExpression':
      return [...types, 'argument']
    case 'UnaryExpression':
      return node['operator'] === 'delete' || node['operator'] === 'typeof'
        ? [...types, 'argument']
        : types
    case 'Property':
    case 'PropertyDefinition':
    case 'MethodDefinition':
    case 'AccessorProperty':
      return node['computed'] === true ? types : [...types, 'key']
    case 'MemberExpression':
      return node['computed'] === true ? types : [...types, 'property']
    case 'TaggedTemplateExpression':
      return [...types, 'tag']
    case 'NewExpression':
      return [...types, 'callee']
    case 'ImportExpression':
    case 'ImportDeclaration':
    case 'ExportAllDeclaration':
      return Object.keys(node)
    case 'ForOfStatement':
    case 'ForInStatement':
      return [...types, 'left']
    default:
      return types
  }
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as Node).type === 'string' &&
  typeof (value as Node).start === 'number'
