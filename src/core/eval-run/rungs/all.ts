export { rung as rung0001 } from './0001.ts'
export { rung as rung0002 } from './0002.ts'
export { rung as rung0003 } from './0003.ts'
