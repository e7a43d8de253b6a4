#pragma once

#include <utility>

namespace tconv3d {

/// A static that is never destroyed: threads may still call while the process ends.
template <typename Value>
class Lasting {
public:
    template <typename... Arguments>
    explicit Lasting(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}
    ~Lasting() {}
    Lasting(const Lasting&) = delete;
    Lasting& operator=(const Lasting&) = delete;

    Value& operator*() { return value_; }
    const Value& operator*() const { return value_; }
    Value* operator->() { return &value_; }

private:
    union {
        Value value_; ///< A union destroys none of its members.
    };
};

} // namespace tconv3d
