// What a float is stored as in a code book: the numbers by the recipe of
// bitsandbytes' create_dynamic_map, the code by torchao's subtractions. Shares
// nothing with altgrad/book.h.
#ifndef ALTGRAD_TESTS_BOOK_ORACLE_H
#define ALTGRAD_TESTS_BOOK_ORACLE_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace oracle {

inline std::vector<float> makeBook(bool hasSign, int decades) {
  std::vector<float> numbers{0, 1};
  for (int i = 0; i < decades; ++i) {
    int parts = 1 << (i + !hasSign);
    float step = (1.0f - 0.1f) / float(parts);
    std::vector<float> ramp; // torch.linspace, which fuses products and sums
    for (int j = 0; j <= parts; ++j)
      ramp.push_back(j < (parts + 1) / 2
                         ? std::fma(step, float(j), 0.1f)
                         : std::fma(-step, float(parts - j), 1.0f));
    for (int j = 0; j < parts; ++j) {
      float power = float(std::pow(10.0, i + 1 - decades));
      float number = power * ((ramp[j] + ramp[j + 1]) / 2);
      numbers.push_back(number);
      if (hasSign)
        numbers.push_back(-number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// By the place in the table of formats: bnb8, bnb8u, torchao4, torchao4u.
inline const std::vector<float> &bookNumbers(unsigned place) {
  static const std::vector<float> all[] = {
      makeBook(true, 7), makeBook(false, 7), makeBook(true, 3), [] {
        std::vector<float> even;
        for (int i = 1; i <= 16; ++i)
          even.push_back(float(i) / 16);
        return even;
      }()};
  return all[place - 1];
}

inline uint32_t bookCode(unsigned place, float value) {
  const std::vector<float> &numbers = bookNumbers(place);
  if (std::isnan(value))
    return place == 1 ? 127 : place == 3 ? 7 : 0;
  auto at = std::upper_bound(numbers.begin(), numbers.end(), value);
  uint32_t low = at == numbers.begin() ? 0 : uint32_t(at - numbers.begin()) - 1;
  uint32_t high = std::min<uint32_t>(low + 1, uint32_t(numbers.size()) - 1);
  volatile float rest = value - numbers[low],
                 gap = numbers[high] - numbers[low];
  return rest >= gap * 0.5f ? high : low;
}

} // namespace oracle

#endif // ALTGRAD_TESTS_BOOK_ORACLE_H
