-- What a person needs to decide. Rows of an earlier release have none of it until they change.
alter table approvals add column details text;
alter table approvals add column policy text;
alter table approvals add column asker_id text;
alter table approvals add column asker_owner text;
