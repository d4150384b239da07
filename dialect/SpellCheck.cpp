// A word that is not known ==> the nearest one that is, and all there are.
#include "dialect/SpellCheck.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

StringRef altgrad::closestSpelling(StringRef word, ArrayRef<StringRef> known) {
  StringRef found;
  unsigned least = std::min<size_t>(3, word.size() / 2 + 1);
  for (StringRef candidate : known)
    if (unsigned distance = word.edit_distance_insensitive(candidate, true, least); distance < least)
      least = distance, found = candidate;
  return found;
}

std::string altgrad::describeChoices(StringRef word, ArrayRef<StringRef> known) {
  StringRef meant = closestSpelling(word, known);
  return (meant.empty() ? "; there are " : "; did you mean '" + meant.str() + "'? There are ") + join(known, ", ");
}
