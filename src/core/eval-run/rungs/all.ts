export { rung as rung0001 } from './0001.ts'
