/** The release, the same for control plane and agent. */
export const version = '0.1.0'
export const opencodeVersion = '1.18.33'
