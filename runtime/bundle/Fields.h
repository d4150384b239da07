// Reads members of JSON objects, each with its type and range; what is wrong is
// thrown with its place and value.
#ifndef ALTGRAD_RUNTIME_FIELDS_H
#define ALTGRAD_RUNTIME_FIELDS_H

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace altgrad::runtime {

// A JSON object and the words for where it is: "streams[2]".
struct Fields {
  const nlohmann::json &object;
  std::string place;

  const nlohmann::json &member(const char *key) const;
  Fields at(const char *key) const { return {member(key), place + "." + key}; }

  int64_t integer(const char *key, int64_t least, int64_t most) const;
  // A power of two up to `most`.
  int64_t power(const char *key, int64_t most) const;
  // An integer from 0 to `most`, or null, which is -1.
  int64_t integerOrNull(const char *key, int64_t most) const;
  double number(const char *key, double most) const;
  std::string text(const char *key) const;
  // An identifier, for symbols and names.
  std::string word(const char *key) const;
  const nlohmann::json &list(const char *key) const;

  template <typename Value, size_t Count>
  Value choice(const char *key,
               const std::pair<const char *, Value> (&choices)[Count]) const {
    std::string given = text(key);
    for (const auto &[name, value] : choices)
      if (given == name)
        return value;
    reject(key, "is \"" + given.substr(0, 64) + "\"");
  }

  [[noreturn]] void reject(const char *key, const std::string &why) const;
};

bool isWord(const std::string &name);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_FIELDS_H
