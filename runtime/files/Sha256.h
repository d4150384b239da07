// SHA-256, for cache keys and for bytes that were on a disk: 64 bytes are a block.
#ifndef ALTGRAD_RUNTIME_SHA256_H
#define ALTGRAD_RUNTIME_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace altgrad::runtime {

class Sha256 {
public:
  using Digest = std::array<uint8_t, 32>;

  // `plainly`: without the CPU's instructions for it.
  explicit Sha256(bool plainly = false);
  void update(const void *bytes, size_t size);
  Digest finish();

private:
  void (*const block)(uint32_t *state, const uint8_t *bytes);
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t pending[64];
  uint64_t total = 0;
};

std::string hexadecimal(const Sha256::Digest &digest);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_SHA256_H
