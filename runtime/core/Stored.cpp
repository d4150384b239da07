// What words of users say: how the states of a file are stored, which codes alone do not, and where a rule is.
#include "Errors.h"
#include "Words.h"
#include "altgrad/rule_files.h"
#include "table.h"

#include <cstdlib>
#include <cstring>

using namespace altgrad::core;

namespace {

bool isOfCopy(Text key) { return key == "copy" || key.substr(0, 5) == "copy_"; }
bool isOfMaster(Text key) { return key == "master" || key == "remainder"; }
bool isOfScales(Text key) { return key.size() > 6 && key.substr(key.size() - 6) == "_scale"; }

std::string stored(const Words &line, Text key) {
  const std::string *word = find(line, isOfMaster(key) ? "master" : key);
  if (!word && !isOfMaster(key) && key != "copy")
    word = find(line, "states");
  const std::string layout(word ? split(*word, ',')[0] : "param");
  if (layout == "param" || isDtype(layout))
    return "";
  const std::string bent = parse(*word).bent; // codes of bent numbers
  return layout + (bent.empty() ? "" : ",") + bent;
}

bool differs(const Words &file, const Words &own, Text key, bool small) {
  const bool said = find(file, key), kept = find(own, key);
  // A master that the file lacks begins anew; without theirs parameters would go on from numbers that are rounded.
  if (isOfMaster(key) && !find(file, "master"))
    return false;
  if (key == "master" && !kept)
    return true;
  const std::string theirs = stored(file, key), mine = stored(own, key);
  // Nobody reads a copy that is too many.
  if (isOfScales(key) || (isOfCopy(key) && !(said && kept)) || theirs == mine)
    return false;
  return isOfMaster(key) || !small || (parse(theirs).block <= 1 && parse(mine).block <= 1);
}

} // namespace

const char *altgrad_table_stored(const char *line, const char *key) {
  return guarded<const char *>(nullptr, [&] {
    static thread_local std::string words;
    return (words = stored(wordsIn(line), key)).c_str();
  });
}

int32_t altgrad_table_differs(const char *file, const char *own, const char *key, int32_t small) {
  return guarded<int32_t>(-1, [&] { return differs(wordsIn(file), wordsIn(own), key, small); });
}

int32_t altgrad_table_rule_file(const char *spelled) { return altgrad::isRuleFile(spelled); }
