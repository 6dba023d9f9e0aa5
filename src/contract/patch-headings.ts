const headings = ['*** Add File:', '*** Update File:', '*** Delete File:', '*** Move to:']

/**
 * The names in the headings of OpenCode's patch format, read as OpenCode reads them: lines end at a line feed and at
 * nothing else, and the space after the colon may be missing. Whoever is stricter overlooks files that it will write.
 */
export function patchHeadingNames(text: string): string[] {
  return text.split('\n').flatMap((line) => {
    const heading = headings.find((each) => line.startsWith(each))
    return heading === undefined ? [] : [line.slice(heading.length).trim()]
  })
}
