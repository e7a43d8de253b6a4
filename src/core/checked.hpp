#pragma once

#include <cstdint>

namespace tconv3d {

/// A 64-bit value that remembers whether any operation on the way to it overflowed.
class Checked {
public:
    Checked(int64_t value) : value_(value) {}

    bool fits() const { return fits_; }
    int64_t value() const { return value_; }

    friend Checked operator+(Checked a, Checked b) {
        Checked sum(0);
        sum.fits_ = !__builtin_add_overflow(a.value_, b.value_, &sum.value_) && a.fits_ && b.fits_;
        return sum;
    }

    friend Checked operator-(Checked a, Checked b) {
        Checked difference(0);
        difference.fits_ = !__builtin_sub_overflow(a.value_, b.value_, &difference.value_) && a.fits_ && b.fits_;
        return difference;
    }

    friend Checked operator*(Checked a, Checked b) {
        Checked product(0);
        product.fits_ = !__builtin_mul_overflow(a.value_, b.value_, &product.value_) && a.fits_ && b.fits_;
        return product;
    }

private:
    int64_t value_;
    bool fits_ = true;
};

} // namespace tconv3d
