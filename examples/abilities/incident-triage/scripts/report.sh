#!/bin/sh
# report.sh SUMMARY HYPOTHESIS
mkdir -p docs/incidents
file=docs/incidents/$(date -u +%Y-%m-%d-%H%M).md
{ echo '# Incident'; echo; echo "$1"; echo; echo '## Likely cause'; echo; echo "$2"; } > "$file"
echo "Written to $file"
