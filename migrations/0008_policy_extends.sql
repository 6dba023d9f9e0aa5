-- What a document builds on: a built-in one with its version, or none. Documents from before had nothing under them.
alter table policies add column extends text not null default 'none';
