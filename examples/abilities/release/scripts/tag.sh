#!/bin/sh
# tag.sh VERSION NOTES: an annotated tag. Made once: the same tag again is an error.
git -c user.name=release -c user.email=release@localhost tag -a "$1" -m "$2" && echo "Tagged $1"
