-- What a team, or one member of it, wants to remember. project, scope and member_id say whose it is ('' for what the whole
-- project shares). place stands for these and the organisation in the index, which is asked for nothing without it.
create table memories (
  n integer primary key,
  id text not null unique,
  organisation_id text not null,
  project text not null,
  scope text not null,
  member_id text not null,
  place text not null,
  type text not null,
  title text not null,
  content text not null,
  revision integer not null,
  -- A key's id, or the session's in which an agent saved it.
  saved_by text not null,
  created_at integer not null,
  updated_at integer not null,
  deleted_at integer
);
create index memories_by_place on memories (place, created_at, id);
create index memories_by_title on memories (place, type, title);

-- Every revision, the first one too. An operation makes at most one, however often it is repeated.
create table memory_revisions (
  memory_id text not null,
  revision integer not null,
  operation_id text not null,
  type text not null,
  title text not null,
  content text not null,
  saved_by text not null,
  created_at integer not null,
  primary key (memory_id, revision)
);
create unique index memory_revisions_by_operation on memory_revisions (memory_id, operation_id);

-- Finds rows and ranks none: its own ranking counts words of the whole table, other organisations' too.
create virtual table memory_index using fts5 (
  place, type, title, content, content = 'memories', content_rowid = 'n',
  tokenize = 'porter unicode61 remove_diacritics 2'
);
create trigger memories_indexed after insert on memories when new.deleted_at is null begin
  insert into memory_index (rowid, place, type, title, content)
    values (new.n, new.place, new.type, new.title, new.content);
end;
create trigger memories_unindexed before update on memories when old.deleted_at is null begin
  insert into memory_index (memory_index, rowid, place, type, title, content)
    values ('delete', old.n, old.place, old.type, old.title, old.content);
end;
create trigger memories_indexed_anew after update on memories when new.deleted_at is null begin
  insert into memory_index (rowid, place, type, title, content)
    values (new.n, new.place, new.type, new.title, new.content);
end;
create trigger memories_forgotten after delete on memories when old.deleted_at is null begin
  insert into memory_index (memory_index, rowid, place, type, title, content)
    values ('delete', old.n, old.place, old.type, old.title, old.content);
end;
