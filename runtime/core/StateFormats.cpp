// What words of users say: how the states of a file are stored, which codes alone do not, and where a rule is.
#include "Errors.h"
#include "StorageLine.h"
#include "altgrad/rule_files.h"
#include "altgrad_core.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace altgrad::core;

namespace {

bool isOfCopy(Text key) { return key == "copy" || key.substr(0, 5) == "copy_"; }
bool isOfMaster(Text key) { return key == "master" || key == "remainder"; }
bool isOfScales(Text key) { return key.size() > 6 && key.substr(key.size() - 6) == "_scale"; }

std::string stateFormat(const Words &line, Text key) {
  const std::string *word = find(line, isOfMaster(key) ? "master" : key);
  if (!word && !isOfMaster(key) && key != "copy")
    word = find(line, "states");
  const std::string layout(word ? split(*word, ',')[0] : "param");
  if (layout == "param" || isDtype(layout))
    return "";
  const std::string bent = parse(*word).bent; // codes of bent numbers
  return layout + (bent.empty() ? "" : ",") + bent;
}

// From how many elements on a state has blocks, if it ever has.
int32_t minSizeOf(const Words &line, Text key) {
  const std::string *word = find(line, key);
  word = word || key == "copy" ? word : find(line, "states");
  return word ? parse(*word).min_size : ALTGRAD_BLOCKED_NUMEL;
}

bool formatsDiffer(const Words &file, const Words &own, Text key, int64_t plain) {
  const bool inFile = find(file, key), inOwn = find(own, key);
  // A master that the file lacks begins anew; without theirs parameters would go on from numbers that are rounded.
  if (isOfMaster(key) && !find(file, "master"))
    return false;
  if (key == "master" && !inOwn)
    return true;
  const std::string fileFormat = stateFormat(file, key), ownFormat = stateFormat(own, key);
  // Nobody reads a copy that is too many.
  if (isOfScales(key) || (isOfCopy(key) && !(inFile && inOwn)) || fileFormat == ownFormat)
    return false;
  const bool small = plain >= 0 && plain < std::max(minSizeOf(file, key), minSizeOf(own, key));
  return isOfMaster(key) || !small || (parse(fileFormat).block <= 1 && parse(ownFormat).block <= 1);
}

} // namespace

const char *altgrad_core_state_format(const char *line, const char *key) {
  return guarded<const char *>(nullptr, [&] {
    static thread_local std::string words;
    return (words = stateFormat(wordsIn(line), key)).c_str();
  });
}

int32_t altgrad_core_formats_differ(const char *file, const char *own, const char *key, int64_t plain) {
  return guarded<int32_t>(-1, [&] { return formatsDiffer(wordsIn(file), wordsIn(own), key, plain); });
}

int32_t altgrad_core_is_rule_file(const char *spelled) { return altgrad::isRuleFile(spelled); }
