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
    /// Inputs of ever new sizes must not fill the memory: what would be one more than `most` replaces all others. A
    /// training or serving process has far fewer.
    explicit Kept(size_t most) : most_(most) {}

    std::shared_ptr<const Value> find(const std::string& key) {
        const std::shared_lock<std::shared_mutex> lock(mutex_);
        const auto found = values_.find(key);
        return found == values_.end() ? nullptr : found->second;
    }

    void insert(const std::string& key, std::shared_ptr<const Value> value) {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        if (values_.size() >= most_) values_.clear();
        values_[key] = std::move(value);
    }

    void clear() {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        values_.clear();
    }

private:
    const size_t most_;
    std::shared_mutex mutex_;
    std::unordered_map<std::string, std::shared_ptr<const Value>> values_;
};

} // namespace tconv3d::ops
