export const rung: readonly string[] = ['alter table calls add column run_id text']
