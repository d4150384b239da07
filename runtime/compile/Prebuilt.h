// Bundles of stock rules in common storages, built with the library: a request for
// one of them needs no compiler.
#ifndef ALTGRAD_RUNTIME_PREBUILT_H
#define ALTGRAD_RUNTIME_PREBUILT_H

#include "compile/Rules.h"

namespace altgrad::runtime {

// Where the stock rules lie, seen from the library's folder.
Strings templateFolders(const std::string &folder);

// The key of a request: this altgrad and its ABI, the options in their one form, the
// text of every rule that they name. "" where one is not a stock rule.
std::string prebuiltKey(const Strings &templates, const Strings &options);

// The bundle kept under `key` in the folder "bundles" beside the library's, or in it.
bool findPrebuilt(const std::string &libraryFolder, const std::string &key, std::vector<char> &bundle);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_PREBUILT_H
