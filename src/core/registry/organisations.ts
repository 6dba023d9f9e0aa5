import type { Crypto, Db } from '../ports.ts'

export async function createOrganisation(
  db: Db,
  crypto: Crypto,
  now: number,
  name: string,
): Promise<string> {
  const id = `org_${crypto.random(20)}`
  await db.batch([
    {
      sql: 'insert into organisations (id, name, created_at) values (?, ?, ?) on conflict do nothing',
      values: [id, name, now],
    },
  ])
  return id
}

/** One of this name, the oldest. Two that ask at the same time get the same one. */
export async function ensureOrganisation(
  db: Db,
  crypto: Crypto,
  now: number,
  name: string,
): Promise<{ id: string; created: boolean }> {
  const id = `org_${crypto.random(20)}`
  await db.batch([
    {
      sql: `insert into organisations (id, name, created_at) select ?, ?, ?
            where not exists (select 1 from organisations where name = ?)`,
      values: [id, name, now, name],
    },
  ])
  const [row] = await findOrganisations(db, name)
  if (!row) throw new Error('The new organisation cannot be read back')
  return { id: row.id, created: row.id === id }
}

export function findOrganisations(
  db: Db,
  idOrName: string,
): Promise<{ id: string; name: string }[]> {
  return db.all(
    'select id, name from organisations where id = ? or name = ? order by created_at, id',
    idOrName,
    idOrName,
  )
}
