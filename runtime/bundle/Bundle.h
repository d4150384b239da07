// A loaded bundle: its manifest and the addresses of what it exports.
#ifndef ALTGRAD_RUNTIME_BUNDLE_H
#define ALTGRAD_RUNTIME_BUNDLE_H

#include "altgrad/altgrad.h"
#include "bundle/Manifest.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace altgrad::runtime {

class Bundle {
public:
  Bundle() = default;
  Bundle(const Bundle &) = delete;
  ~Bundle();

  // Opens a bundle that is in memory; `name` is only for the words of errors.
  static altgrad_status open(const char *bytes, size_t size, const std::string &name,
                             std::shared_ptr<const Bundle> &out);

  const Manifest &manifest() const { return parsed; }
  const char *manifestText() const { return text; }
  const std::string &name() const { return label; }
  // The address of an exported function or null.
  void *function(const std::string &symbol) const;
  // NUL-terminated data and its length without the NUL, or null.
  const char *data(const std::string &symbol, size_t &length) const;
  // Any data and its size, or null.
  const char *bytes(const std::string &symbol, size_t &size) const;

  // What somebody keeps with the bundle for as long as it lives, by whom; one
  // thread at a time.
  altgrad_status attached(const void *who,
                          const std::function<altgrad_status(std::shared_ptr<const void> &)> &use) const {
    std::lock_guard<std::mutex> held(attaching);
    return use(attachments[who]);
  }

private:
  altgrad_status map(const char *bytes, size_t size);
  altgrad_status mapFile(const char *bytes, size_t size, const char *refused);
  altgrad_status readManifest();

  std::string label;
  void *library = nullptr;
  const char *text = nullptr;
  Manifest parsed;
  mutable std::mutex attaching;
  mutable std::map<const void *, std::shared_ptr<const void>> attachments;
};

} // namespace altgrad::runtime

struct altgrad_bundle {
  std::shared_ptr<const altgrad::runtime::Bundle> shared;
};

#endif // ALTGRAD_RUNTIME_BUNDLE_H
