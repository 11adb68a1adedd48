#!/bin/sh
echo "$GREETING from an image of our own"
