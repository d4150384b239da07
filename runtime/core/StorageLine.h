// What is read of the words of a storage line.
#ifndef ALTGRAD_CORE_STORAGELINE_H
#define ALTGRAD_CORE_STORAGELINE_H

#include "altgrad/words.h"
#include "altgrad_storage.h"

namespace altgrad::core {

using Text = std::string_view;
using altgrad::find, altgrad::split, altgrad::Words, altgrad::wordsIn;

altgrad_core_word parse(Text word);
// The word that the compiler gets of a state of a tensor with so many elements: f32 where that is too small for blocks.
std::string wordAt(Text word, int64_t numel);
// Whether torch has a dtype of numbers in this format.
bool isDtype(const std::string &format);
// Whether the compiler has blocks of so many elements.
bool isBlock(int64_t size);

} // namespace altgrad::core

#endif // ALTGRAD_CORE_STORAGELINE_H
