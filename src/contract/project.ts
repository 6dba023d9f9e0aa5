import { z } from 'zod'

/** A name inside an organisation by which sessions and rows of registries are grouped. */
export const Project = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, { error: 'Lower-case letters, digits, ".", "_" and "-"' })
  .default('default')
