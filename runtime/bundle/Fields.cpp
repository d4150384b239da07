// Reads members of JSON objects.
#include "bundle/Fields.h"

#include <stdexcept>

using namespace altgrad::runtime;
using nlohmann::json;

// No real step comes near; every product of counts stays within 64 bits.
static constexpr size_t mostEntries = 4096;

// Not more of a value than fits a sentence.
static std::string shown(const json &value) {
  bool plain = value.is_primitive();
  std::string words =
      plain ? value.dump(-1, ' ', true, json::error_handler_t::replace)
            : value.type_name();
  return words.size() > 64 ? words.substr(0, 64) + "..." : words;
}

void Fields::reject(const char *key, const std::string &why) const {
  throw std::runtime_error(place + "." + key + " " + why);
}

const json &Fields::member(const char *key) const {
  if (!object.is_object())
    throw std::runtime_error(place + " is not an object");
  auto found = object.find(key);
  if (found == object.end())
    throw std::runtime_error(place + " has no \"" + key + "\"");
  return *found;
}

int64_t Fields::integer(const char *key, int64_t least, int64_t most) const {
  const json &value = member(key);
  // A JSON number above 2^63 is "unsigned"; get<int64_t> would wrap it.
  bool fits = value.is_number_integer() &&
              !(value.is_number_unsigned() &&
                value.get<uint64_t>() > uint64_t(INT64_MAX));
  int64_t number = fits ? value.get<int64_t>() : 0;
  if (!fits || number < least || number > most)
    reject(key, "is " + shown(value) + ", not in [" + std::to_string(least) +
                    ", " + std::to_string(most) + "]");
  return number;
}

int64_t Fields::power(const char *key, int64_t most) const {
  int64_t number = integer(key, 1, most);
  if (number & (number - 1))
    reject(key, "is " + std::to_string(number) + ", not a power of two");
  return number;
}

int64_t Fields::integerOrNull(const char *key, int64_t most) const {
  return member(key).is_null() ? -1 : integer(key, 0, most);
}

double Fields::number(const char *key, double most) const {
  const json &value = member(key);
  double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0 && number <= most))
    reject(key, "is " + shown(value) + ", not a number from 0 to " +
                    std::to_string(int64_t(most)));
  return number;
}

std::string Fields::text(const char *key) const {
  const json &value = member(key);
  if (!value.is_string())
    reject(key, "is " + shown(value) + ", not a string");
  std::string words = value.get<std::string>();
  for (char c : words)
    if (c >= 0 && c < ' ')
      reject(key, "holds a control character");
  return words;
}

std::string Fields::word(const char *key) const {
  std::string name = text(key);
  if (!isWord(name))
    reject(key, "is not a name: \"" + name.substr(0, 64) + "\"");
  return name;
}

const json &Fields::list(const char *key) const {
  const json &value = member(key);
  if (!value.is_array() || value.size() > mostEntries)
    reject(key, "is not a list of at most " + std::to_string(mostEntries) +
                    " entries");
  return value;
}

bool altgrad::runtime::isWord(const std::string &name) {
  if (name.empty() || name.size() > 128 || (name[0] >= '0' && name[0] <= '9'))
    return false;
  for (char c : name)
    if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
        !(c >= '0' && c <= '9') && c != '_')
      return false;
  return true;
}
