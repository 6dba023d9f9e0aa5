export const rung: readonly string[] = ['alter table session add column claimed_for text']
