/** The release, the same for control plane and agent. */
export const version = '0.1.0'
export const opencodeVersion = '1.18.33'
/** The newest file in migrations/: libSQL must have it, and may have more of a later release. */
export const schemaVersion = '0022_promotions.sql'
/** Of a migration without which a release cannot use the database any more. All others only add. */
export const breakingSuffix = '_breaking.sql'
