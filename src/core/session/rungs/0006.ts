export const rung: readonly string[] = [
  `create trigger outbox_promise after insert on outbox begin
  insert or ignore into deadlines (name, at) values ('outbox', new.created_at + 5000);
end`,
]
