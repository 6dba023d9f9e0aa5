export const rung: readonly string[] = [
  // What the first sandbox found at the paths of skills whose text is in the workspace. It stays, whatever the files become.
  `create table skill_texts (
    name text primary key,
    path text not null,
    found text not null,
    sha256 text,
    content text,
    read_at integer not null
  )`,
]
