"""``python -m firststep`` is the command ``firststep``."""

from firststep_command import main

if __name__ == "__main__":
    main()
