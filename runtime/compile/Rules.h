// The rules that the option lines of a request name, and what identifies them.
#ifndef ALTGRAD_RUNTIME_RULES_H
#define ALTGRAD_RUNTIME_RULES_H

#include "altgrad/rule_files.h"

#include <string>
#include <vector>

namespace altgrad::runtime {

using Strings = std::vector<std::string>;

std::string folderOf(const std::string &path);

// The one form of all requests that differ in the order of words, of flags or of a
// rule's options, in short names, or in words that say what holds anyway. Sets keep their
// order, which is that of a bundle's.
Strings canonical(const Strings &options);

// Whether it is a set of gradients alone.
bool isWithoutRule(const std::string &line);

// The names in "--rule=NAME{...}" and "--set=rule=NAME{...} ...", in order;
// false where a rule is not of these words alone or --rule-path is given. Sets
// without a rule name none.
bool plainRules(const Strings &options, Strings &names);

// The digest of NAME.mlir in the first folder that has it; "" if none has.
std::string stockDigest(const Strings &folders, const std::string &name);

// Names and digests of all that the compiler may read as a rule for this request: of
// the rules that it names, or, where a text may name others, of whole folders. Where
// the files lie is not told.
std::string ruleIdentity(const Strings &stock, const Strings &options, bool hasText);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_RULES_H
