// The manifest of a bundle written by hand, entry by entry.
#ifndef ALTGRAD_TESTS_MANIFEST_H
#define ALTGRAD_TESTS_MANIFEST_H

#define STREAM(name, key, role, access, format, bits, block, slot, set)        \
  "{\"name\": \"" name "\", \"key\": \"" key "\", \"role\": \"" role           \
  "\", \"access\": \"" access "\", \"format\": \"" format                      \
  "\", \"columns\": 0, \"bits\": " #bits ", \"even\": \"none\", \"block\": " #block \
  ", \"slot\": " #slot                                                          \
  ", \"set\": " #set "}"
#define SCALAR(name, key, role, access, type, scope, slot, set, fallback)      \
  "{\"name\": \"" name "\", \"key\": \"" key "\", \"role\": \"" role           \
  "\", \"access\": \"" access "\", \"type\": \"" type                          \
  "\", \"scope\": \"" scope "\", \"slot\": " #slot ", \"set\": " #set          \
  ", \"default\": " #fallback "}"
#define PHASE(name, symbol, kind, domain, set, per_block, read, written)       \
  LAUNCH(name, symbol, kind, domain, set, per_block, 0, read, written)
#define LAUNCH(name, symbol, kind, domain, set, per_block, finishes, read,     \
               written)                                                        \
  "{\"name\": \"" name "\", \"symbol\": \"" symbol "\", \"kind\": \"" kind     \
  "\", \"domain\": \"" domain "\", \"set\": " #set                             \
  ", \"per_block\": " #per_block ", \"finishes\": " #finishes                  \
  ", \"tiles\": 0, \"block\": 1, \"read\": " #read                               \
  ", \"written\": " #written "}"
#define EXCHANGE(phase, word, reduction)                                       \
  "{\"phase\": " #phase ", \"words\": [{\"word\": " #word                      \
  ", \"reduction\": \"" reduction "\"}]}"

#endif // ALTGRAD_TESTS_MANIFEST_H
