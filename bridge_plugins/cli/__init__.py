"""The two command lines: ``bridge-audit`` and ``bridge-plugins``. Exit 0: consistent, 1: findings, 2: not
done.
"""
