// A storage line as a list of words.
#ifndef ALTGRAD_CORE_WORDS_H
#define ALTGRAD_CORE_WORDS_H

#include "altgrad_storage.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace altgrad::core {

using Text = std::string_view;
// (stream, what is said of it), in the order of the line.
using Words = std::vector<std::pair<std::string, std::string>>;

std::vector<Text> split(Text text, char at);
Words wordsIn(Text line);
// What is said of a stream; null where nothing is.
const std::string *find(const Words &words, Text name);
altgrad_core_word parse(Text word);

} // namespace altgrad::core

#endif // ALTGRAD_CORE_WORDS_H
