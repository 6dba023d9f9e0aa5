export const rung: readonly string[] = [
  `create trigger call_begun after insert on calls begin
    insert into outbox (kind, payload, created_at) values ('call', new.n, new.started_at);
  end`,
  `create trigger call_ended after update of state on calls when new.state <> 'pending' begin
    insert into outbox (kind, payload, created_at) values ('call', new.n, new.settled_at);
  end`,
]
