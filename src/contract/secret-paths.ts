const secretFiles = new Set([
  ...['.envrc', '.netrc', '_netrc', '.pypirc', '.pgpass', '.my.cnf', '.git-credentials'],
  ...['id_rsa', 'id_dsa', 'id_ecdsa', 'id_ed25519', 'credentials', '.credentials', 'admin-key'],
  ...['credentials.json', '.credentials.json', 'secrets.json', 'secrets.yml', 'secrets.yaml'],
  ...['secrets.toml', '.secrets', '.htpasswd', '.vault-token', '.dockercfg', 'kubeconfig'],
  ...[
    'kubeconfig.yaml',
    'kubeconfig.yml',
    '.terraformrc',
    'terraform.tfvars',
    'terraform.tfvars.json',
  ],
])
const secretFolders = new Set(['.aws', '.ssh', '.gnupg', '.kube', '.azure', '.gantry'])
/** Made to be read: they hold names, not values. */
const envTemplates =
  /^\.(?:env|dev\.vars)\.(?:[\w-]+\.)*(?:example|sample|template|dist|defaults?)$|^(?:\w+[.-])*(?:example|sample|template|dist|defaults?)\.env$/
/** `.env`, `.env.local`, `prod.env`, and what wrangler reads in their place. */
const envFiles = /^\.(?:env|dev\.vars)(?:[.*]|$)|\.env$/
const secretEndings =
  /\.(?:p12|pfx|jks|keystore|kdbx|key|tfstate|tfstate\.(?:\d+\.)?backup|auto\.tfvars|auto\.tfvars\.json)$/
/** Of a cloud: the key with which a service signs in. */
const serviceAccount = /^service[-_]?account[\w.-]*\.json$/
const accountTemplate = /[._-](?:example|sample|template)\.json$/
const secretPlaces =
  /\/(?:\.docker\/config\.json|\.config\/gh\/hosts\.yml)$|\/\.config\/gcloud(?:\/|$)/

export const secretFileNames: readonly string[] = [...secretFiles]

/** Whether the file holds credentials, by its name or a folder that it is in. */
export function namesSecretPath(path: string): boolean {
  const lower = path.toLowerCase()
  const parts = lower.split('/')
  const file = parts.at(-1) ?? ''
  if (envFiles.test(file)) return !envTemplates.test(file)
  if (file === 'environ') return lower.startsWith('/proc/')
  return (
    secretFiles.has(file) ||
    secretEndings.test(file) ||
    secretPlaces.test(lower) ||
    (serviceAccount.test(file) && !accountTemplate.test(file)) ||
    parts.some((part) => secretFolders.has(part))
  )
}
