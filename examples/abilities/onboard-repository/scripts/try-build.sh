#!/bin/sh
exec 2>&1
if [ -f package.json ]; then npm install --no-audit --no-fund && npm run build --if-present; exit $?; fi
if [ -f Makefile ]; then exec make; fi
echo 'Nothing here says how it is built'
