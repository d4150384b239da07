// Where the rules lie that a request names: the compiler reads them there, and the runtime knows a request again by
// what it has read.
#ifndef ALTGRAD_RULE_FILES_H
#define ALTGRAD_RULE_FILES_H

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace altgrad {

// What a rule's file ends in; NAME.mlir has the rule @NAME.
inline constexpr char ruleEnding[] = ".mlir";

// Whether a rule is spelled as a file: with a separator or ending in .mlir. Another spelling is a name.
inline bool isRuleFile(std::string_view spelled) {
  const size_t length = sizeof ruleEnding - 1;
  return spelled.find('/') != spelled.npos ||
         (spelled.size() >= length && spelled.substr(spelled.size() - length) == ruleEnding);
}

inline std::string ruleFile(const std::string &folder, std::string_view name) {
  return folder + "/" + std::string(name) + ruleEnding;
}

// The folders in which a name is looked up, the first ones first: those of stock rules in a checkout and in an
// installation, seen from the program's or the library's folder.
inline std::vector<std::string> stockFolders(const std::string &folder) {
  return {folder + "/../templates", folder + "/../../templates", folder + "/../share/altgrad/templates"};
}
// Behind them those of a --rule-path, which are separated by colons.
inline void addRulePath(std::vector<std::string> &folders, std::string_view path) {
  for (size_t start = 0, end; start < path.size(); start = end + 1) {
    end = std::min(path.find(':', start), path.size());
    if (end > start)
      folders.emplace_back(path.substr(start, end - start));
  }
}

} // namespace altgrad

#endif // ALTGRAD_RULE_FILES_H
