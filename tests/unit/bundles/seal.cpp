// Ends a bundle written by hand as the compiler ends its own: seal FILE.
#include "altgrad/bundle.h"
#include "files/Sha256.h"

#include <fstream>
#include <iterator>

int main(int, char **arguments) {
  std::ifstream from(arguments[1], std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(from), {});
  bytes += ALTGRAD_BUNDLE_END;
  altgrad::runtime::Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  const auto digest = hash.finish();
  bytes.append(digest.begin(), digest.end());
  std::ofstream to(arguments[1], std::ios::binary | std::ios::trunc);
  return !(to << bytes).flush();
}
