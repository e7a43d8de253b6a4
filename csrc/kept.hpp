#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

namespace tconv3d::ops {

/// What was prepared for earlier calls, by key. Threads may ask at once.
template <typename Value>
class Kept {
public:
    std::shared_ptr<const Value> find(const std::string& key) {
        const std::shared_lock<std::shared_mutex> lock(mutex_);
        const auto found = values_.find(key);
        return found == values_.end() ? nullptr : found->second;
    }

    void insert(const std::string& key, std::shared_ptr<const Value> value) {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        if (values_.size() >= kMost) values_.clear();
        values_[key] = std::move(value);
    }

    void clear() {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        values_.clear();
    }

private:
    /// Inputs of ever new sizes must not fill the memory. A training or serving process has far fewer.
    static constexpr size_t kMost = 4096;

    std::shared_mutex mutex_;
    std::unordered_map<std::string, std::shared_ptr<const Value>> values_;
};

} // namespace tconv3d::ops
