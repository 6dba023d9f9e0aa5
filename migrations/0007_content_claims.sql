-- Which sessions hold which content. A claim is written before the content that it is for, and before any artifact can
-- name it: content is deleted only when no claim and no artifact is left.
create table blob_claims (
  organisation_id text not null,
  sha256 text not null,
  session_id text not null,
  claimed_at integer not null,
  primary key (organisation_id, sha256, session_id)
);
create index blob_claims_by_session on blob_claims (organisation_id, session_id);
insert or ignore into blob_claims (organisation_id, sha256, session_id, claimed_at)
  select organisation_id, sha256, session_id, created_at from artifacts;

-- Set once the session is erased: rows and uploads that come late change nothing. Such a mark goes a day later.
alter table outbox_watermarks add column erased_at integer;
create index outbox_watermarks_erased on outbox_watermarks (erased_at) where erased_at is not null;
