"""The commands of `python -m tconv3d`, one module each."""
