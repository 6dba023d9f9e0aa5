const secretFiles = new Set([
  ...['.envrc', '.netrc', '_netrc', '.pypirc', '.pgpass', '.my.cnf', '.git-credentials'],
  ...['id_rsa', 'id_dsa', 'id_ecdsa', 'id_ed25519', 'credentials', '.credentials', 'admin-key'],
  ...['credentials.json', '.credentials.json', 'secrets.json', 'secrets.yml', 'secrets.yaml'],
  ...['secrets.toml', '.secrets', '.htpasswd'],
])
const secretFolders = new Set(['.aws', '.ssh', '.gnupg', '.kube', '.azure', '.gantry'])
/** Made to be read: they hold names, not values. */
const envTemplates = /^\.env\.(?:[\w-]+\.)*(?:example|sample|template|dist|defaults?)$/
const secretEndings = /\.(?:p12|pfx|jks|keystore|kdbx|key)$/
const secretPlaces =
  /\/(?:\.docker\/config\.json|\.config\/gh\/hosts\.yml)$|\/\.config\/gcloud(?:\/|$)/

export const secretFileNames: readonly string[] = [...secretFiles]

/** Whether the file holds credentials, by its name or a folder that it is in. */
export function namesSecretPath(path: string): boolean {
  const lower = path.toLowerCase()
  const parts = lower.split('/')
  const file = parts.at(-1) ?? ''
  if (file === '.env' || file.startsWith('.env.') || file.startsWith('.env*'))
    return !envTemplates.test(file)
  if (file === 'environ') return lower.startsWith('/proc/')
  return (
    secretFiles.has(file) ||
    secretEndings.test(file) ||
    secretPlaces.test(lower) ||
    parts.some((part) => secretFolders.has(part))
  )
}
