// The digest of a manifest written by hand, made when the bundle is loaded.
#include "files/Sha256.h"

#include <cstring>

extern "C" const char altgrad_manifest[];
extern "C" char altgrad_manifest_sha256[65];
char altgrad_manifest_sha256[65];

__attribute__((constructor)) static void seal() {
  altgrad::runtime::Sha256 hash;
  hash.update(altgrad_manifest, strlen(altgrad_manifest));
  strcpy(altgrad_manifest_sha256, altgrad::runtime::hexadecimal(hash.finish()).c_str());
}
