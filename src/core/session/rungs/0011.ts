export const rung: readonly string[] = [
  `alter table session add column agent_config text not null default '{"agentType":"opencode"}'`,
]
