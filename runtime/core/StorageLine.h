// What is read of the words of a storage line.
#ifndef ALTGRAD_CORE_STORAGELINE_H
#define ALTGRAD_CORE_STORAGELINE_H

#include "altgrad/words.h"
#include "altgrad_storage.h"

namespace altgrad::core {

using Text = std::string_view;
using altgrad::split, altgrad::Words, altgrad::wordsIn;

// What is said of a stream; null where nothing is.
const std::string *find(const Words &words, Text name);
altgrad_core_word parse(Text word);
// Whether torch has a dtype of numbers in this format.
bool isDtype(const std::string &format);

} // namespace altgrad::core

#endif // ALTGRAD_CORE_STORAGELINE_H
