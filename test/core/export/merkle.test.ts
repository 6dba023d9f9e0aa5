import { expect, test } from 'vitest'
import { merkleLeaf, merkleRootFrom, MerkleTree } from '../../../src/core/export/merkle.ts'

// The texts and roots that Certificate Transparency tests its logs with.
const texts = ['', '\0', '\u0010', ' !', '01', '@ABC', 'PQRSTUVW', '`abcdefghijklmno']
const roots = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
]

test('[EXP12] the tree is that of RFC 6962', () => {
  expect(roots.map((_, size) => new MerkleTree(texts.slice(0, size)).root)).toEqual(roots)
})

test('[EXP12] a path leads from its line to the root, and no other line, place, size or path does', () => {
  for (let size = 1; size <= 17; size += 1) {
    const lines = Array.from({ length: size }, (_, at) => `line ${at}`)
    const tree = new MerkleTree(lines)
    for (const [index, line] of lines.entries()) {
      const path = tree.path(index)
      const from = (change: object = {}, text = line) =>
        merkleRootFrom(merkleLeaf(text), { index, size, path, ...change })
      expect(from()).toBe(tree.root)
      expect(from({}, 'another')).not.toBe(tree.root)
      expect(from({ path: [...path, path[0] ?? tree.root] })).not.toBe(tree.root)
      for (const other of [index - 1, index + 1, size])
        expect(from({ index: other })).not.toBe(tree.root)
      for (const at of path.keys())
        expect(from({ path: path.toSpliced(at, 1) })).not.toBe(tree.root)
    }
  }
})
