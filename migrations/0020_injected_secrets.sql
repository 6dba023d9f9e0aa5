-- A secret that is for the control plane to add to requests, and never for a sandbox: JSON of where and how.
alter table secrets add column inject text;
