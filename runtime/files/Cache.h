// Compiled bundles on disk, one self-verifying file each.
#ifndef ALTGRAD_RUNTIME_CACHE_H
#define ALTGRAD_RUNTIME_CACHE_H

#include "files/File.h"

#include <string>
#include <vector>

namespace altgrad::runtime {

// The cache directory, opened once; without a usable one nothing is ever found
// or kept, and a warning says why.
class Cache {
public:
  Cache();
  explicit operator bool() const { return bool(directory); }

  // The bundle kept under `key`. Any defect of its file is a miss.
  bool find(const std::string &key, std::vector<char> &bundle) const;
  // Keeps a bundle; a failure costs nothing but a later compilation.
  void keep(const std::string &key, const std::vector<char> &bundle) const;

  // A new file of these bytes that has no name any more, to be read; false with errno, or
  // without a directory.
  bool temporaryFile(const char *bytes, size_t size, Descriptor &out) const;

private:
  void prune() const;

  std::string path;
  Descriptor directory;
};

// The file of an entry: the SHA-256 of its key.
std::string entryName(const std::string &key);

// The bytes of an entry, and back; false when they are not exactly that entry.
std::vector<char> packEntry(const std::string &key, const std::vector<char> &bundle);
bool unpackEntry(const std::string &key, std::vector<char> &entry);

// Adds a part to a key, with its length: no two lists of parts give one key.
void addPart(std::string &key, const char *name, const std::string &part);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_CACHE_H
