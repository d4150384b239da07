// What words of users say: how the states of a file are stored, which codes alone do not, where a rule is, and who
// multiplies.
#include "Errors.h"
#include "Table.h"
#include "altgrad/products.h"
#include "altgrad/rule_files.h"
#include "table.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

using namespace altgrad::core;

namespace {

using Text = std::string_view;

// What follows the '=' of the word for a key.
std::optional<Text> find(Text line, Text key) {
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find(' ', begin), line.size());
    const Text word = line.substr(begin, end - begin);
    if (word.size() > key.size() && word.substr(0, key.size()) == key && word[key.size()] == '=')
      return word.substr(key.size() + 1);
    begin = end + 1;
  }
  return {};
}

bool isOfCopy(Text key) { return key == "copy" || key.substr(0, 5) == "copy_"; }
bool isOfMaster(Text key) { return key == "master" || key == "remainder"; }
bool isOfScales(Text key) { return key.size() > 6 && key.substr(key.size() - 6) == "_scale"; }

bool isDtype(const std::string &format) {
  const char *found = altgrad_table_format(altgrad_table_dtype(format.c_str()));
  return found && found == format;
}

std::string stored(Text line, Text key) {
  std::optional<Text> word = find(line, isOfMaster(key) ? "master" : key);
  if (!word && !isOfMaster(key) && key != "copy")
    word = find(line, "states");
  std::string layout(word ? word->substr(0, word->find(',')) : "param");
  if (layout == "param" || isDtype(layout))
    return "";
  for (const char *bent : {",softsign", ",sqrt"}) // codes of bent numbers
    if (word->find(bent) != Text::npos)
      return layout + bent;
  return layout;
}

bool hasBlocks(const std::string &layout) {
  const size_t colon = layout.find(':');
  return colon != layout.npos && atoi(layout.c_str() + colon + 1) > 1;
}

bool differs(Text file, Text own, Text key, bool small) {
  const bool said = find(file, key).has_value(), kept = find(own, key).has_value();
  // A master that the file lacks begins anew; without theirs parameters would go on from numbers that are rounded.
  if (isOfMaster(key) && !find(file, "master"))
    return false;
  if (key == "master" && !kept)
    return true;
  const std::string theirs = stored(file, key), mine = stored(own, key);
  // Nobody reads a copy that is too many.
  if (isOfScales(key) || (isOfCopy(key) && !(said && kept)) || theirs == mine)
    return false;
  return isOfMaster(key) || !small || !(hasBlocks(theirs) || hasBlocks(mine));
}

} // namespace

const char *altgrad_table_stored(const char *line, const char *key) {
  return guarded<const char *>(nullptr, [&] {
    static thread_local std::string words;
    return (words = stored(line, key)).c_str();
  });
}

int32_t altgrad_table_differs(const char *file, const char *own, const char *key, int32_t small) {
  return guarded<int32_t>(-1, [&] { return differs(file, own, key, small); });
}

int32_t altgrad_table_own_products(altgrad_bundle *bundle, int32_t alone) {
  return guarded<int32_t>(-1, [&] {
    const altgrad::ProductsBy by = altgrad::productsBy();
    return (by == altgrad::ProductsBy::Own || (alone && by == altgrad::ProductsBy::Auto)) && multiplies(bundle);
  });
}

int32_t altgrad_table_rule_file(const char *spelled) { return altgrad::isRuleFile(spelled); }
